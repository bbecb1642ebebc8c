"""``python -m robot_mcp_kit.sim``."""

from robot_mcp_kit.sim.node import main

raise SystemExit(main())
