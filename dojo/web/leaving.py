"""A page that its user has left is forgotten soon; one that only sleeps is waited for.

To the server both are a socket that has closed, and it keeps what a page shows for as long as a laptop may sleep. So a
page that is left for good says so.
"""

from __future__ import annotations

import asyncio

from nicegui import Client, app, background_tasks, ui

GRACE = 5.0  # seconds for what was typed last, which may come after the word that the page is left
SCRIPT = """<script>
addEventListener("pagehide", event => event.persisted || navigator.sendBeacon(`/left/${window.clientId}`));
</script>"""


def install() -> None:
    """Let all pages say it."""
    ui.add_head_html(SCRIPT, shared=True)

    @app.post("/left/{page}")
    async def left(page: str) -> None:
        if page in Client.instances:
            background_tasks.create(_forget(page), name=f"forget {page}")


async def _forget(page: str) -> None:
    await asyncio.sleep(GRACE)
    client = Client.instances.get(page)
    if client and not client.has_socket_connection:
        for document in [*client._delete_tasks]:  # NiceGUI has no public word for these, and they would hold it
            client._cancel_delete_task(document)
        client.delete()
