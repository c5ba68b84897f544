"""python-telegram-bot without a network."""

import json

from telegram.request import HTTPXRequest, RequestData

from . import CHAT, ME


class Requests(HTTPXRequest):
    """Prints what the bot sends."""

    async def do_request(
        self, url: str, method: str, request_data: RequestData | None = None, *_: object, **__: object
    ) -> tuple[int, bytes]:
        """Answer as Telegram does."""
        if url.endswith("/getMe"):
            return 200, json.dumps({"ok": True, "result": ME}).encode()
        text = None if request_data is None else request_data.parameters["text"]
        print(url.rsplit("/", 1)[-1], text)
        said = {"message_id": 100, "date": 0, "chat": CHAT, "text": text}
        return 200, json.dumps({"ok": True, "result": said}).encode()
