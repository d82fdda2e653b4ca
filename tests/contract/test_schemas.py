"""What the server sends is valid by the official SDK's types, and by the published JSON schemas.

The schemas are not part of this project: MCP_SCHEMAS names a folder with schema-<revision>.json.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import mcp_types
import pydantic
import pytest

from ambientd import mcp
from ambientd.mcp.lifecycle import REVISIONS

REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    ("initialize", {"protocolVersion": ..., "capabilities": {}}, "InitializeResult"),
    ("ping", {}, "EmptyResult"),
    ("tools/list", {}, "ListToolsResult"),
    ("resources/list", {}, "ListResourcesResult"),
    ("resources/templates/list", {}, "ListResourceTemplatesResult"),
    ("prompts/list", {}, "ListPromptsResult"),
    ("tools/call", {"name": "status", "arguments": {}}, "CallToolResult"),
    ("tools/call", {"name": "sessions", "arguments": {}}, "CallToolResult"),
    ("tools/call", {"name": "transcript", "arguments": {"session": "talk"}}, "CallToolResult"),
    ("tools/call", {"name": "transcript", "arguments": {"session": "nope"}}, "CallToolResult"),
    ("tools/call", {"name": "nope", "arguments": {}}, "error"),
    ("no/such", {}, "error"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "talk"
    folder.mkdir()
    (folder / "session.json").write_text("{}", encoding="utf-8")
    line = {"track": "room", "start_ms": 0, "end_ms": 9, "text": "x"}
    (folder / "raw.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    return tmp_path


def answer(root: Path, method: str, params: dict[str, Any], revision: str) -> dict[str, Any]:
    filled = {key: revision if value is ... else value for key, value in params.items()}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": filled}
    found = mcp.handle(json.dumps(request).encode(), root)
    assert found is not None
    return found


@pytest.mark.parametrize(("method", "params", "kind"), REQUESTS)
def test_answers_are_of_the_official_sdks_types(
    root: Path, method: str, params: dict[str, Any], kind: str
) -> None:
    message = answer(root, method, params, REVISIONS[0])
    if kind == "error":
        mcp_types.JSONRPCError.model_validate(message)
        return
    mcp_types.JSONRPCResponse.model_validate(message)
    model: type[pydantic.BaseModel] = getattr(mcp_types, kind)
    parsed = model.model_validate(message["result"])
    # Nothing that we send is unknown to the SDK: it would be dropped or kept aside.
    kept = parsed.model_dump(by_alias=True, exclude_unset=True, mode="json")
    assert kept == message["result"]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("method", "params", "kind"), REQUESTS)
def test_answers_are_valid_by_the_schema_of_the_agreed_revision(
    root: Path, method: str, params: dict[str, Any], kind: str, revision: str
) -> None:
    folder = os.environ.get("MCP_SCHEMAS")
    if not folder:
        pytest.skip("needs MCP_SCHEMAS, a folder with the published schemas")
    schema = json.loads((Path(folder) / f"schema-{revision}.json").read_text(encoding="utf-8"))
    definitions = "$defs" if "$defs" in schema else "definitions"
    message = answer(root, method, params, revision)
    if kind == "error":
        known = schema[definitions]
        kind = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in known else "JSONRPCError"
    else:
        message = message["result"]
        kind = "Result" if kind == "EmptyResult" else kind
    rooted = {
        "$schema": schema["$schema"],
        definitions: schema[definitions],
        "$ref": f"#/{definitions}/{kind}",
    }
    jsonschema.validate(message, rooted)
