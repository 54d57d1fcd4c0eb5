"""What each role of the template may do, by the same rules of IAM that the local stack enforces."""

from __future__ import annotations

from collections.abc import Mapping

from local.engine.callers import WORKFLOW, role_of, roles_of
from local.rules.permissions import Need, Role
from local.template.intrinsics import Resolver
from local.template.translated import FUNCTION


class Roles:
    """The roles of a stack by logical id, and by the logical id of the function or state machine that has one."""

    def __init__(self, roles: Mapping[str, Role], holders: Mapping[str, str]) -> None:
        self._roles = roles
        self._holders = holders
        self._known: dict[tuple[str, Need], bool] = {}

    @classmethod
    def of(cls, stack: Resolver) -> Roles:
        """Read the roles of a stack."""
        template = stack.template
        holders = [logical_id for kind in (FUNCTION, WORKFLOW) for logical_id, _ in template.of_type(kind)]
        return cls(roles_of(stack), {holder: role_of(template, holder) for holder in holders})

    def role(self, name: str) -> Role:
        """A role; KeyError for one that the template does not have."""
        return self._roles[self._holders.get(name, name)]

    def allows(self, role: str, action: str, resource: str) -> bool:
        """Say whether *role* may do *action* (`service:Name`) to the ARN *resource*."""
        need = Need(action, resource)
        known = self._known.get((role, need))
        if known is None:
            known = self._known[role, need] = self.role(role).allows(need)
        return known
