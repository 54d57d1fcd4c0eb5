from tagcast_client.pytest_plugin import fake_tagcast, tagcast

__all__ = ["fake_tagcast", "tagcast"]
