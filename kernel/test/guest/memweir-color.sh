# memweir on a kernel that colors pages: `map kernel`, `color run --kernel`, `color audit`,
# `doctor`. Colors 0 to 3 of 32, on 1 GiB: 32 MiB of each.
. /memweir.sh
map=/data/i7-860.toml
loaded=/sys/kernel/mm/page_color/map
# color_run ARGUMENTS...
color_run() {
    memweir color run --kernel --map $map "$@"
}

check "doctor" run 0 memweir doctor
check "doctor knows page colors" said "once a map is loaded"

check "map kernel tells the map" run 0 memweir map kernel $map
mv /tmp/out /tmp/told
check "and loads none" [ -z "$(cat $loaded)" ]
check "map kernel --load" run 0 memweir map kernel $map --load
check "the kernel has what was told" cmp /tmp/told $loaded
check "doctor sees the map" run 0 memweir doctor
check "it says so" said "a map is loaded"
put "" $loaded

before=$(vmstat color_alloc)
check "color run" run 0 color_run --colors 0-3 --json /tmp/json -- fill 64 f
check "contents and colors" said "filled 16384 pages, 0 wrong, 0 of 16384 resident outside"
check "color_alloc" counted color_alloc /tmp/json -ge 16384
check "color_spill" counted color_spill /tmp/json -eq 0
check "exit_code" counted exit_code /tmp/json -eq 0
check "the kernel counted it" grew color_alloc "$before" 16384
check "the map is gone" [ -z "$(cat $loaded)" ]
check "the group is gone" no_group_is_left

check "children are colored" run 0 color_run --colors 5,9 -- \
    sh -c 'fill 8 220 & fill 8 220 || exit 1; wait $!'
check "colors of banks and cache" run 0 \
    color_run --colors 0-31 --cache 8M:16 --cache-colors 0-63 -- fill 8
check "a program that fails" run 7 color_run --colors 0 -- sh -c 'exit 7'
check "its status is told" said "ended with status 7"
check "an absent program" run 3 color_run --colors 0 -- /absent
check "and no map remains" [ -z "$(cat $loaded)" ]

mkfifo /tmp/gate
color_run --colors 0-3 -- fill 16 f /tmp/gate >/tmp/background 2>&1 &
read -r pid </tmp/gate
check "audit" run 0 memweir color audit --map $map --colors 0-3 "$pid" --json /tmp/audit
check "audit's table" said "process $pid, colors 0-3 of 32"
check "all of its memory is inside" awk '/"own": / { own = 1 }
    own && /"pages":/ { pages = $2 + 0 } own && /"inside":/ { inside = $2 + 0 }
    own && /}/ { print inside, "of", pages; exit !(pages >= 4096 && pages == inside) }' /tmp/audit
check "another map is refused while one is used" run 3 memweir map kernel /data/other.toml --load
check "with what would help" said "end the programs that it colors"
check "a second program shares the map" run 0 color_run --colors 8 -- fill 4 100
check "the map stays for the first" cmp /tmp/told $loaded
echo go >/tmp/gate
wait
check "the first ends well" grep -q "0 wrong, 0 of" /tmp/background
check "the map goes with the last" [ -z "$(cat $loaded)" ]

check "spill" run 0 color_run --colors 0 --on-shortage spill --json /tmp/json -- fill 64
check "is told" said "pages have other colors"
check "and counted" counted color_spill /tmp/json -ge 8192
check "refuse" run 137 color_run --colors 0 --on-shortage refuse --json /tmp/json -- fill 64
check "ends the program" said "was ended by signal 9"
check "and is counted" counted color_oom /tmp/json -ge 1
put 128M /sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
swapon /dev/zram0
check "reclaim" run 0 color_run --colors 0 --on-shortage reclaim --json /tmp/json -- fill 48
check "keeps what was written" said "filled 12288 pages, 0 wrong"
check "color_reclaim" counted color_reclaim /tmp/json -ge 1
swapoff /dev/zram0

check "a color outside of the map" run 2 color_run --colors 32 -- true
check "is named" said "color 32 is outside the map"
check "books are in order: no group is left" no_group_is_left
true
