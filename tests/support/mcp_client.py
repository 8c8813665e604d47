"""The official client of the Model Context Protocol, with `tickwheel mcp` as its server: mcp_client.py TICKWHEEL URL.
Run by mcp_test.py in an environment that has the package."""

import asyncio
import sys
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(program, url):
    server = StdioServerParameters(command=program, args=["mcp", "--url", url])
    async with stdio_client(server) as (reads, writes), ClientSession(reads, writes) as session:
        told = await session.initialize()
        assert (told.serverInfo.name, told.protocolVersion) == ("tickwheel", "2025-06-18"), told
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert tools["list"].annotations.readOnlyHint and tools["cancel"].annotations.destructiveHint, tools
        made = await session.call_tool("schedule", {"when": "1s", "target": "queue:agent", "payload": {"order": 42}})
        assert not made.isError and made.structuredContent["state"] == "scheduled", made
        waiting = asyncio.create_task(session.call_tool("lease", {"queue": "agent", "wait": "20s"}))
        await session.send_ping()
        item = (await waiting).structuredContent["items"][0]
        assert item["payload"] == {"order": 42} and item["id"] == made.structuredContent["id"], item
        acked = await session.call_tool("ack", {"queue": "agent", "receipts": [item["receipt"]]})
        assert acked.structuredContent["ok"] == 1, acked
        listed = await session.call_tool("list", {})
        assert listed.structuredContent == {"items": []}, listed
        problem = await session.call_tool("get", {"key": "nobody"})
        assert problem.isError and problem.content[0].text, problem
        try:
            await session.call_tool("lease", {"queue": "empty", "wait": "20s"}, read_timeout_seconds=timedelta(milliseconds=200))
        except Exception as error:  # the client gives up
            assert "Timed out" in str(error), error
        assert (await session.call_tool("count", {})).structuredContent["count"] == 0
    print("all is right")


asyncio.run(main(*sys.argv[1:]))
