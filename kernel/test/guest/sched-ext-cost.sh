# The cost of a scheduler in BPF beside that of the freezer, in one run of one guest: a switch, and
# a batch of eight jobs that keep the processors busy with nothing but their caches.
. /memweir.sh

switch --bench | sed -n 's/^\(v2 two-level\|BPF scheduler\)/COST us (median, p90, p99) to switch 8 of 16 jobs, &/p'

cat >/tmp/busy.toml <<END
meter = "declared"

[[jobs]]
name = "spin"
command = ["spin", "$(argument millions)"]
instances = 8
expected_time_s = 2.0
read_bandwidth = 0.0
write_bandwidth = 0.0
END
for mechanism in cgroup-v2 sched-ext; do
    check "busy jobs under $mechanism" run 0 memweir run --mechanism $mechanism --cores "$(nproc)" \
        --compare os,round-robin --repeat "$(argument rounds)" /tmp/busy.toml
    sed -n "s/^ *\(os\|round-robin\) /COST $mechanism: &/p" /tmp/out
    cat /tmp/err
done
true
