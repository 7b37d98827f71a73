from tfx_gnn.tpu_check.tpu_check import check_step as check_step
from tfx_gnn.tpu_check.tpu_problem import TpuProblem as TpuProblem
