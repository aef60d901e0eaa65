#!/bin/sh
# Builds the Debian package, from what `make build` has left in target/release, into target/deb:
# the package, its components (SBOM, CycloneDX), and the release notes of its version.
#
#   packaging/deb.sh [PROFILE]    release by default; dev packages a debug build, for tests
set -eu

cd "$(dirname "$0")/.." || exit
profile=${1-release}
case $profile in
dev) built=target/debug ;;
*) built=target/$profile ;;
esac
tools=$PWD/target/tools
deb=target/deb
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

# tool CRATE VERSION
tool() {
    grep -qs "^\"$1 $2 " "$tools/.crates.toml" ||
        scripts/cargo.sh install --quiet --locked --root "$tools" --version "$2" "$1"
}

# notes SECTION: a section of the changelog, without its heading.
notes() {
    awk -v section="## [$1]" \
        'index($0, "## ") == 1 { found = index($0, section) == 1; next } found' CHANGELOG.md
}

rm -rf $deb
mkdir -p $deb/man $deb/completions

"$built/memweir" man $deb/man
for shell in bash zsh fish; do
    "$built/memweir" completions $shell >"$deb/completions/$shell"
done

# A version that has no section yet is being worked on.
notes "$version" >$deb/release-notes.md
if grep -q '[^[:space:]]' $deb/release-notes.md; then
    distribution=stable
else
    notes Unreleased >$deb/release-notes.md
    distribution=UNRELEASED
fi
date=$(LC_ALL=C date -uR -d "@${SOURCE_DATE_EPOCH-$(git log -1 --format=%ct)}")
cat >$deb/changelog <<END
memweir ($version-1) $distribution; urgency=medium

  * The changes of this version are in /usr/share/doc/memweir/NEWS.md.gz.

 -- The memweir developers <memweir@users.noreply.github.com>  $date
END

# The package is built of files that are there: nothing is compiled here.
tool cargo-deb 3.8.0
"$tools/bin/cargo-deb" --no-build --profile "$profile" -p memweir --output $deb/

tool cargo-cyclonedx 0.5.7
"$tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --manifest-path crates/cli/Cargo.toml \
    --override-filename memweir-sbom
find . -path ./target -prune -o -name memweir-sbom.json -print | while read -r file; do
    case $file in
    ./crates/cli/*) mv "$file" $deb/ ;;
    *) rm -f "$file" ;;
    esac
done
ls $deb/*.deb $deb/memweir-sbom.json $deb/release-notes.md
