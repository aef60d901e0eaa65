# `memweir watch` shows containers of Podman and steps of Slurm, which it has not started.
. /lib.sh
busy='while :; do :; done'

# watched PATTERN [OPTION...]: a line of the watch has all of these, and CPU time.
watched() {
    pattern=$1
    shift
    memweir watch --for 4s "$@" >/tmp/watched || return 1
    grep -E "$pattern" /tmp/watched | grep -qE '"cpu_s":(0\.[1-9]|[1-9])' || { cat /tmp/watched; return 1; }
}

podman_is_watched() {
    root=/var/lib/small
    mkdir -p $root/bin $root/proc $root/sys $root/dev $root/etc $root/tmp $root/run
    cp /bin/busybox $root/bin/sh
    check "a container starts" sh -c "podman --cgroup-manager systemd run --detach --name busy --network none \
        --rootfs $root /bin/sh -c '$busy' >/tmp/container"
    id=$(cut -c 1-12 /tmp/container)
    check "watch shows it under the id that podman shows" watched "\"name\":\"libpod-$id\""
    check "as a container" grep "\"kind\":\"container\"" /tmp/watched
    check "its monitor is none" [ "$(grep -o '"name":"libpod[^"]*"' /tmp/watched | sort -u | wc -l)" = 1 ]
    memweir watch --for 20s >/tmp/watched &
    sleep 5
    check "it is removed" podman --cgroup-manager systemd rm --force --time 0 busy
    wait
    check "watch says that it has ended" sh -c "grep libpod-$id /tmp/watched | tail -n 1 | grep '\"state\":\"ended\"'"
}

slurm_is_watched() {
    # A machine with nothing but 127.0.0.1 has no addresses for Slurm.
    check "addresses" sh -c 'ip link set lo up && ip address add 10.0.0.1/24 dev lo'
    mkdir -p /etc/slurm /var/lib/slurm/state /var/spool/slurmd
    cat >/etc/slurm/slurm.conf <<END
ClusterName=guest
SlurmctldHost=$(hostname)(127.0.0.1)
AuthType=auth/munge
SlurmUser=root
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectType=select/cons_tres
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
END
    printf 'CgroupPlugin=cgroup/v2\nConstrainCores=yes\n' >/etc/slurm/cgroup.conf
    echo "127.0.0.1 localhost $(hostname)" >/etc/hosts
    check "Slurm starts" systemctl restart munge slurmctld slurmd
    check "its node is idle" within 120 sh -c 'sinfo --noheader --format %T | grep idle'
    check "a job" sbatch --ntasks 1 --output /tmp/job --wrap "srun sh -c '$busy'"
    check "its step runs" within 120 sh -c 'squeue --steps --noheader | grep "1\.0"'
    check "watch shows the step" watched '"name":"1.0"' --slurm
    check "with the number of its job" grep '"slurm_jobid":"1"' /tmp/watched
    check "and that of the script" grep '"name":"1.batch"' /tmp/watched
    check "each as a step" sh -c '! grep -v "\"kind\":\"slurm\"" /tmp/watched'
    check "metrics have the number" sh -c 'memweir watch --slurm --for 3s --metrics-textfile /tmp/m.prom >/dev/null &&
        grep "slurm_jobid=\"1\"" /tmp/m.prom'
    memweir watch --slurm --for 20s >/tmp/watched &
    sleep 5
    check "the job is canceled" scancel 1
    wait
    check "watch says that it has ended" sh -c 'grep "\"1\.0\"" /tmp/watched | tail -n 1 | grep "\"state\":\"ended\""'
}

check "the package" dpkg --install /memweir.deb
podman_is_watched
slurm_is_watched
