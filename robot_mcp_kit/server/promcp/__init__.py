"""The robot under proMCP: ``read_``, ``do_`` and ``can_do`` over the same skills and the same bridge.

Each profile of the skills file is an MCP endpoint of its own. Nothing of a skill is written here twice: the
tools describe, forward and measure.
"""
