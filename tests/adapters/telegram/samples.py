"""Updates as the platform sends them; every id, token and name is invented."""

from __future__ import annotations

from shardline.actors.plain import Plain

Update = dict[str, Plain]

TOKEN = "4200:FAKE-token_for-tests"

MESSAGE: Update = {
    "update_id": 912000001,
    "message": {
        "message_id": 11,
        "from": {"id": 7000000001, "is_bot": False, "first_name": "Ada"},
        "chat": {"id": 7000000001, "type": "private", "first_name": "Ada"},
        "date": 1760000000,
        "text": "hi \U0001f600",
        "entities": [],
    },
}
EDITED: Update = {
    "update_id": 912000002,
    "edited_message": {
        "message_id": 11,
        "from": {"id": 7000000001, "is_bot": False, "first_name": "Ada"},
        "chat": {"id": 7000000001, "type": "private"},
        "date": 1760000000,
        "edit_date": 1760000009,
        "text": "hi!",
    },
}
TOPIC: Update = {
    "update_id": 912000003,
    "message": {
        "message_id": 52,
        "message_thread_id": 40,
        "is_topic_message": True,
        "from": {"id": 7000000002, "is_bot": False, "first_name": "Bo"},
        "chat": {"id": -1001557000001, "type": "supergroup", "title": "Lab", "is_forum": True},
        "date": 1760000010,
        "text": "status?",
    },
}
ALBUM: Update = {
    "update_id": 912000004,
    "message": {
        "message_id": 53,
        "media_group_id": "13579000000000001",
        "from": {"id": 7000000002, "is_bot": False, "first_name": "Bo"},
        "chat": {"id": -1001557000001, "type": "supergroup", "title": "Lab"},
        "date": 1760000011,
        "caption": "before",
        "photo": [
            {"file_id": "FAKEfile1", "file_unique_id": "u1", "width": 90, "height": 90, "file_size": 900}
        ],
    },
}
MIGRATION: Update = {
    "update_id": 912000005,
    "message": {
        "message_id": 9,
        "from": {"id": 7000000002, "is_bot": False, "first_name": "Bo"},
        "chat": {"id": -4001, "type": "group", "title": "Old"},
        "date": 1760000012,
        "migrate_to_chat_id": -1001557000002,
    },
}
CALLBACK: Update = {
    "update_id": 912000006,
    "callback_query": {
        "id": "44000000000000001",
        "from": {"id": 7000000001, "is_bot": False, "first_name": "Ada"},
        "message": {"message_id": 12, "chat": {"id": 7000000001, "type": "private"}, "date": 1760000013},
        "chat_instance": "-90001",
        "data": "ok:1",
    },
}
BUSINESS: Update = {
    "update_id": 912000007,
    "business_message": {
        "business_connection_id": "bc-fake-1",
        "message_id": 3,
        "from": {"id": 7000000003, "is_bot": False, "first_name": "Cy"},
        "chat": {"id": 7000000003, "type": "private"},
        "date": 1760000014,
        "text": "price?",
    },
}
POST: Update = {
    "update_id": 912000008,
    "channel_post": {
        "message_id": 77,
        "sender_chat": {"id": -1001557000009, "type": "channel", "title": "News"},
        "chat": {"id": -1001557000009, "type": "channel", "title": "News"},
        "date": 1760000015,
        "text": "v1 out",
    },
}


def body_of(update: Update, name: str = "message") -> Update:
    """A copy of what the update is about."""
    body = update[name]
    assert isinstance(body, dict)
    return dict(body)
