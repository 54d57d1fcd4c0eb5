"""No test may reach AWS: every session of boto3 gets keys that open nothing."""

import os

from hypothesis import settings

os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_DEFAULT_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
    POWERTOOLS_TRACE_DISABLED="true",
)
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
    os.environ.pop(name, None)

# Examples are judged by what they show, not by how long a busy machine takes for them.
settings.register_profile("default", deadline=None)
settings.load_profile("default")
