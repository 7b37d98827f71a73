from tfx_gnn.components.latest_blessed_model_resolver.component import (
    LatestBlessedModelResolver as LatestBlessedModelResolver,
)
from tfx_gnn.components.latest_blessed_model_resolver.options import (
    LatestBlessedModelResolverOptions as LatestBlessedModelResolverOptions,
)
from tfx_gnn.components.latest_blessed_model_resolver.stage import (
    resolve_latest_blessed_model as resolve_latest_blessed_model,
)
