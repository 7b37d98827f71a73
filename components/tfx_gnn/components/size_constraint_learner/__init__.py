"""The SizeConstraintLearner component: its contract and its executor."""

from tfx_gnn.components.size_constraint_learner.component import SizeConstraintLearner

__all__ = ["SizeConstraintLearner"]
