"""The MCP side: the only room that imports mcp's server half.

``tools`` turns skills into tools, ``app`` builds the MCP server and its ASGI application, ``serve`` runs it
on the node's own event loop.
"""
