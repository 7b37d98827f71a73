from tfx_gnn.tpu_check.check import check_step as check_step
from tfx_gnn.tpu_check.problem import TpuProblem as TpuProblem
