"""Static completion scripts for `ambient` and `ambientctl`; they start nothing."""

from __future__ import annotations

VERBS = {
    "ambient": {
        "mcp": ("--toolsets",),
        "sessions": ("--json",),
        "status": ("--json",),
        "show": ("--json", "--since", "--verbatim", "--follow", "latest", "live"),
        "completion": ("bash", "zsh", "fish"),
    },
    "ambientctl": {
        "status": ("--json", "--watch"),
        "record": ("--json", "--name", "--seconds", "--no-transcribe", "--call", "--no-call"),
        "stop": ("--json", "--wait"),
        "arm": ("--json", "--for", "--until", "--until-disarm"),
        "disarm": ("--json",),
        "pause": ("--json",),
        "resume": ("--json",),
        "mute": ("--json", "room", "call"),
        "unmute": ("--json", "room", "call"),
        "devices": ("--json", "test"),
    },
}


def script(shell: str) -> str:
    """Return the script for a shell.

    Args:
        shell: ``bash``, ``zsh`` or ``fish``.
    """
    if shell == "fish":
        return _fish()
    head = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return head + "".join(_bash(command) for command in VERBS)


def _bash(command: str) -> str:
    cases = "".join(
        f"    {verb}) words='{' '.join(words)}' ;;\n" for verb, words in VERBS[command].items()
    )
    return (
        f"_{command}_complete() {{\n"
        f"  local words='{' '.join(VERBS[command])} --help --version'\n"
        '  case "${COMP_WORDS[1]}" in\n'
        f"{cases}"
        "  esac\n"
        '  [ "$COMP_CWORD" -eq 1 ] && '
        f"words='{' '.join(VERBS[command])} --help --version'\n"
        '  COMPREPLY=($(compgen -W "$words --help" -- "${COMP_WORDS[COMP_CWORD]}"))\n'
        "}\n"
        f"complete -F _{command}_complete {command}\n"
    )


def _fish() -> str:
    lines = []
    for command, verbs in VERBS.items():
        lines.append(f"complete -c {command} -f")
        lines.append(f"complete -c {command} -n __fish_use_subcommand -a '{' '.join(verbs)}'")
        for verb, words in verbs.items():
            for word in words:
                option = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
                seen = f"'__fish_seen_subcommand_from {verb}'"
                lines.append(f"complete -c {command} -n {seen} {option}")
    return "\n".join(lines) + "\n"
