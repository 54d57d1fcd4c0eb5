"""The topic part of Tencent CMQ's API 2.0, implemented by the use cases of the service (docs/from-cmq.md)."""
