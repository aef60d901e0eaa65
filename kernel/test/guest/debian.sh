#!/bin/sh
# The service that runs /suite in a guest whose first process is systemd, and ends the guest.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
. /lib.sh
check "as many CPUs as were asked for" [ "$(nproc)" = "$(argument guest_cpus)" ]
sh /suite </dev/null 2>&1
echo "GUEST END $?"
# Setting a terminal waits until its output is written.
stty -F /dev/ttyS0 onlcr
systemctl reboot
