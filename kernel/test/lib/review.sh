# A dry run of submission: the objections of maintainers and their robots to a series. Warnings that
# the stock kernel has as well do not count. Sourced by run.sh; needs build.sh.

# Name, architecture, configuration, and whether it has the option of the series. Compilers and
# checkers find other things without features, on 32 bits, and with large pages.
review_variants='
x86_64        x86_64  base+measure             with
x86_64-debug  x86_64  base+measure+soak        with
x86_64-off    x86_64  base+measure             without
x86_64-small  x86_64  review-small             without
i386          i386    review-i386              without
arm64         arm64   review-arm64             with
arm64-64k     arm64   review-arm64+review-64k  with'

# review [SERIES...]: all series that there are, if none is named.
review() {
    # shellcheck disable=SC2046
    [ $# -gt 0 ] || set -- $(all_series)
    for program in sparse spatch sphinx-build aarch64-linux-gnu-gcc; do
        command -v "$program" >/dev/null 2>&1 ||
            skip "missing: $program (as root, scripts/setup.sh review installs it)"
    done
    need_source
    reviews=$work/review tree=$work/trees/review
    mkdir -p "$reviews" "$work/trees"
    (make_tree) && rm "$tree.unfinished"
    for reviewed; do
        [ -d "$kernel/$reviewed" ] || die "no series $reviewed"
        review_letter
        review_state stock
        upto=0
        for patch in $(upto=all series_patches "$reviewed"); do
            upto=$((upto + 1))
            review_state "$reviewed" "$(basename "$patch" .patch)"
        done
        upto=all
        review_state "$reviewed"
    done
}

# The letter goes to all whom the patches concern.
review_letter() {
    # shellcheck disable=SC2046
    (cd "$source" && perl scripts/get_maintainer.pl --no-git --no-git-fallback --no-rolestats \
        $(series_patches "$reviewed") 2>/dev/null) | addresses >"$scratch/concerned"
    sed '/^$/q' "$(series_directory "$reviewed")"/0000-*.patch | awk '/^[^ ]/ { wanted = /^(To|Cc):/ } wanted' |
        addresses >"$scratch/addressed"
    review_outcome 'recipients of the letter' "$scratch/addressed" "$scratch/concerned"
}

addresses() {
    grep -o '[^ <>",()]*@[^ <>",()]*' | sort -u
}

# review_state stock|SERIES [PATCH]: warnings of the stock kernel, of a whole series, or of a series
# up to a patch. A part of a series is compiled as the first variant alone.
review_state() {
    # shellcheck disable=SC2046
    (set_patches $(series_patches "$1"))
    echo "$review_variants" | while read -r variant architecture configuration option; do
        [ -n "$variant" ] || continue
        review_variant "$1" "${2-$variant}" </dev/null
        [ $# -eq 1 ] || break
    done
    [ $# -eq 1 ] || return 0
    for matter in documentation semantics; do
        "review_$matter" >"$reviews/$1-$matter.log" 2>&1
        warnings_in "$reviews/$1-$matter.log" >"$reviews/$1-$matter.warnings"
        [ "$1" = stock ] || review_outcome "$matter" "$reviews/stock-$matter.warnings" "$reviews/$1-$matter.warnings"
    done
}

# review_variant stock|SERIES WHAT: the warnings of the compiler and of sparse for the files that
# the series touches, in the variant that was read last.
review_variant() {
    output=$reviews/$variant make_options="ARCH=$architecture O=$reviews/$variant"
    [ "$architecture" != arm64 ] || make_options="$make_options CROSS_COMPILE=aarch64-linux-gnu-"
    mkdir -p "$output"
    with=none
    [ "$option" = without ] || with=$1
    fragments=$(config_fragments "$configuration" "$with")
    configure
    objects=$(touched_objects)
    # shellcheck disable=SC2086
    (cd "$output" && rm -f $objects)
    log=$reviews/$1-$2.log
    # shellcheck disable=SC2086
    make -C "$tree" -s -j "$jobs" $make_options W=1 C=2 $objects >"$log" 2>&1 ||
        failed "review of $reviewed: $1, $2 does not compile: $(grep -m 1 -E 'error|Error' "$log") (see $log)"
    warnings_in "$log" >"$reviews/$1-$2.warnings"
    [ "$1" = stock ] || review_outcome "warnings, $2" "$reviews/stock-$variant.warnings" "$reviews/$1-$2.warnings"
}

# Of the files that the series touches those that are there and that the configuration compiles: the
# Makefiles of their directories know.
touched_objects() {
    touched c | while read -r file; do
        object=$(basename "$file" .c).o
        printf 'all: ; @echo $(obj-y)\ninclude %s\ninclude %s\n' "$output/.config" \
            "$tree/$(dirname "$file")/Makefile" >"$scratch/objects"
        make -s -f "$scratch/objects" 2>/dev/null | tr ' ' '\n' | grep -qx "$object" && echo "${file%.c}.o"
    done
}

# touched SUFFIX...: the files that the whole series touches and the tree has.
touched() {
    for suffix; do
        # shellcheck disable=SC2046
        cat $(upto=all series_patches "$reviewed") | sed -n "s|^+++ b/\(.*\.$suffix\)$|\1|p" | sort -u
    done | while read -r file; do
        [ ! -f "$tree/$file" ] || echo "$file"
    done
}

# The comments for kernel-doc, and the pages.
review_documentation() {
    # shellcheck disable=SC2046
    (cd "$tree" && scripts/kernel-doc -none -Wall $(touched c h)) || true
    make -C "$tree" -s O="$reviews/documentation" SPHINXDIRS=admin-guide htmldocs || true
}

# The rules of Coccinelle that come with the kernel, but for those that need OCaml.
review_semantics() {
    (
        cd "$tree"
        # shellcheck disable=SC2046
        grep -rl '^virtual report' scripts/coccinelle | xargs grep -L script:ocaml | while read -r rule; do
            spatch -D report --no-show-diff --very-quiet --cocci-file "$rule" \
                $(sed -n 's|^// Options: ||p' "$rule") $(touched c) </dev/null || true
        done
    )
}

# A warning that no patch can avoid: sparse does not follow a lock that a function takes only if it
# succeeds, as folio_walk_start() does, and says so of each caller, the stock kernel's too.
accepted="mm/swap.h: warning: context imbalance in 'maps_swap_slot' - unexpected unlock"

# warnings_in LOG: sorted, without the paths of a tree and the line numbers that a patch moves.
warnings_in() {
    sed -n -E -e "s|^(\.\./)*||; s|^$tree/||; s/^([^ :]+):[0-9:-]+/\1:/" \
        -e '/(warning|error)\b/Ip' "$1" | grep -vxF "$accepted" | sort -u
}

# review_outcome WHAT STOCK SERIES: fails if the second file has lines that the first one lacks.
review_outcome() {
    comm -13 "$2" "$3" >"$scratch/new"
    if [ -s "$scratch/new" ]; then
        failed "review of $reviewed: $1:
$(sed 's/^/    /' "$scratch/new")"
    else
        say "PASS review of $reviewed: $1"
    fi
}
