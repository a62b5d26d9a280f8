#!/usr/bin/env bash
# two_hosts_pages_test.sh SEXTANT: the commands of the pages that name the hosts a and b, as printed.
# What differs from a cluster with ssh is told to mpirun by its environment.
set -uo pipefail
source "$(dirname "$0")/two_hosts.sh"
make_hosts
name_hosts
export OMPI_MCA_plm_rsh_agent="$folder/agent"
export OMPI_MCA_btl_tcp_if_include=10.213.7.0/24 OMPI_MCA_oob_tcp_if_include=10.213.7.0/24
cd "$(dirname "$0")/../.." || exit 1
on_host a python3 tests/pages/pages_test.py "$1" README.md docs/training.md --kind hosts
