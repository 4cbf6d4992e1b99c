"""A TCP relay that delays what passes through it: ``delaying_relay.py FROM TO PORT FILE``.

It listens at FROM:PORT and brings all to TO:PORT; the file holds the delay of each piece, in
seconds, and is read again for each.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path


async def passed_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: Path
) -> None:
    with suppress(OSError):
        while piece := await reader.read(65_536):
            await asyncio.sleep(float(delay.read_text(encoding="utf-8")))
            writer.write(piece)
            await writer.drain()
    writer.close()


async def main(listen: str, target: str, port: int, delay: Path) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(target, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            passed_on(reader, far_writer, delay), passed_on(far_reader, writer, delay)
        )

    server = await asyncio.start_server(connected, listen, port)
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
