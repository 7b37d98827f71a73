from tfx_gnn.components.size_constraint_learner.component import SizeConstraintLearner as SizeConstraintLearner
from tfx_gnn.components.size_constraint_learner.options import (
    SizeConstraintLearnerOptions as SizeConstraintLearnerOptions,
)
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints as learn_size_constraints
