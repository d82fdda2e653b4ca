// Drives a server with an official TypeScript client and prints what it saw as JSON.
// node drive.mjs PACKAGE_FOLDER client|sdk COMMAND ARGUMENT...
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, kind, command, ...args] = process.argv.slice(2);
const require = createRequire(folder + '/');
const load = (name) => import(pathToFileURL(require.resolve(name)));
const [main, stdio, manifest] =
  kind === 'client'
    ? ['@modelcontextprotocol/client', '@modelcontextprotocol/client/stdio', '@modelcontextprotocol/client']
    : ['@modelcontextprotocol/sdk/client/index.js', '@modelcontextprotocol/sdk/client/stdio.js', '@modelcontextprotocol/sdk'];
const { Client } = await load(main);
const { StdioClientTransport } = await load(stdio);

const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => key.startsWith('AMBIENT_')));
const problems = [];
const client = new Client({ name: 'interop', version: '0' });
client.onerror = (error) => problems.push(String(error));
await client.connect(new StdioClientTransport({ command, args, env, stderr: 'ignore' }));

const seen = { client: manifest };
seen.server = client.getServerVersion().name;
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = (name, given) => client.callTool({ name, arguments: given });
for (const [name, given] of [
  ['status', {}],
  ['sessions', {}],
  ['transcript', { session: 'talk', since: 1 }],
]) {
  seen[name] = JSON.parse((await call(name, given)).content[0].text);
}
seen.failed = (await call('transcript', { session: 'nope' })).isError;
try {
  await call('transcript', { session: 'talk', since: '1' });
} catch (error) {
  seen.refused = error.code;
}
await client.ping();
await client.close();
seen.problems = problems;
console.log(JSON.stringify(seen));
