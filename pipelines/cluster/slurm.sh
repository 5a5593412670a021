#!/bin/bash
# Evaluates on the machines of a SLURM job: a scheduler and the run on the first one, an executor on each.
#
#     STORE=/shared/store sbatch --nodes 8 pipelines/cluster/slurm.sh pipelines/embeddings.toml
#
# STORE is a folder that all machines see, or a bucket. Further arguments go to `pairloom run`.
# The ports have no authentication: machines of the cluster must be reachable by trusted users only.
#SBATCH --job-name=pairloom
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
set -euo pipefail
: "${STORE:?expected the folder or URL of the store}"

address() { hostname -I | cut -d ' ' -f 1; }
HEAD=$(address)
export STORE HEAD
export -f address

pairloom cluster scheduler --address "$HEAD:50050" --allow-remote &
# shellcheck disable=SC2016 # The variables are those of each machine.
srun --overlap bash -c '
    pairloom cluster executor --store "$STORE" --scheduler "http://$HEAD:50050" --address "$(address)" --allow-remote \
        --threads "$SLURM_CPUS_ON_NODE"' &

pairloom run --store "$STORE" --cluster "http://$HEAD:50050" "$@"
# Ends the scheduler and the executors.
kill $(jobs -p)
