"""``python -m robot_mcp_kit``: the same as the ``robot-mcp-kit`` command."""

from robot_mcp_kit.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
