"""The private names of the engine that we rely on: these tests fail loudly when a new version moves them."""

import inspect

from ministack import app
from ministack.core import persistence
from ministack.services import dynamodb, lambda_svc


def test_functions_are_executed_through_the_name_that_we_replace() -> None:
    assert list(inspect.signature(lambda_svc._execute_function_warm).parameters) == ["func", "event", "request_id"]
    assert "_execute_function_warm(func, event, request_id)" in inspect.getsource(lambda_svc._execute_function_dispatch)


def test_the_state_can_be_saved_at_any_time() -> None:
    assert not inspect.signature(app._build_persistence_save_dict).parameters
    assert list(inspect.signature(persistence.save_all).parameters) == ["services"]


def test_stream_records_are_still_not_saved() -> None:
    assert "_stream_records" not in inspect.getsource(dynamodb.get_state)
