"""How often a reader of a flow changes the module is a figure that only gets better."""

from tests.architecture.module_changes import measured

AT_MOST = {
    "publish": (20, 70, 42),
    "delivered fan-out": (24, 152, 88),
    "failed fan-out": (30, 206, 114),
    "retry of two messages": (72, 346, 144),
}
"""Changes of module without the vocabulary, of all modules, and of room, as they were reached; less is better."""


def test_no_flow_changes_module_or_room_more_often_than_it_did() -> None:
    found = measured()

    assert found.keys() == AT_MOST.keys()
    assert {flow: changes for flow, changes in found.items() if any(map(int.__gt__, changes, AT_MOST[flow]))} == {}
