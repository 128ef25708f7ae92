#!/bin/bash
# Training over several nodes with Slurm, across time limits:
#
#   sbatch packaging/slurm.sh run.toml store exp
#
# One process per node; its ranks are threads (parallel.workers in run.toml says how many there are in all). Five minutes
# before the time limit Slurm asks the ranks to save; they end with status 3, and this script submits itself again.
# Failures of a node or a process are dealt with by starting the step again, twice at most.
#SBATCH --job-name=antiphon
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=4:00:00
#SBATCH --signal=USR1@300
#SBATCH --open-mode=append
set -u
if (($# != 3)); then
  echo "usage: sbatch $0 CONFIG STORE OUT" >&2
  exit 2
fi
export OMP_WAIT_POLICY=passive
for attempt in 1 2 3; do
  srun --mpi=pmix --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" antiphon train --config "$1" --store "$2" --out "$3" --resume
  status=$?
  case $status in
    0 | 2) exit "$status" ;;                                            # done; refused, which does not get better
    3) sbatch "${ANTIPHON_JOB_SCRIPT:-$0}" "$@" && exit 0 || exit 3 ;;  # out of time, everything is saved
  esac
  echo "attempt $attempt ended with status $status" >&2
done
exit "$status"
