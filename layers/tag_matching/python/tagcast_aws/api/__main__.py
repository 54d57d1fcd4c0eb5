"""Print the OpenAPI document: ``python -m tagcast_aws.api``."""

import json

from tagcast_aws.api.routes import description

print(json.dumps(description(), indent=2, ensure_ascii=False))
