#!/bin/sh
# kubernetes_lab.sh FOLDER - builds a real Kubernetes for `make test-kubernetes` into FOLDER, from Debian's source package.
#
# FOLDER then has kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kubectl.  Nothing is done if the
# version of the source and this script are those of the last time.  Nothing is installed, and the system's list of
# package sources stays as it is.
set -eu

package=kubernetes
programs="kubelet kube-apiserver kube-controller-manager kube-scheduler kubectl"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
log=$folder/build.log

give_up() {
	echo "kubernetes-lab: $*" >&2
	exit 1
}

# Shows the end of the log if the command fails.
try() {
	"$@" >>"$log" 2>&1 || {
		tail -n 20 "$log" >&2
		give_up "'$*' failed; the whole log is $log"
	}
}

# The sources beside the packages that this system has, with the same keys.
list_sources() {
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb \(.*debian.*\)/deb-src \1/p'
}
list_stanzas() {
	for file in /etc/apt/sources.list.d/*.sources; do
		[ ! -e "$file" ] || { sed 's/^Types:.*/Types: deb-src/' "$file"; echo; }
	done
}
apt() {
	tool=$1
	shift
	"$tool" -q -o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts="$folder/apt/parts" \
		-o Dir::State::lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache" "$@"
}

: >"$log"
mkdir -p "$folder/apt/parts" "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
list_sources >"$folder/apt/sources.list"
list_stanzas >"$folder/apt/parts/all.sources"
apt apt-get update >>"$log" 2>&1 || true
version=$(LC_ALL=C apt apt-cache showsrc "$package" 2>/dev/null | sed -n 's/^Version: //p' | sort -V | tail -n 1)
[ -n "$version" ] || give_up "there is no source package '$package' here: this needs Debian 12, or its package sources"
key=$({ echo "$version"; cat "$here/kubernetes_lab.sh"; } | sha256sum | cut -d ' ' -f 1)
# shellcheck disable=SC2086  # a list of words
if [ "$(cat "$folder/key" 2>/dev/null)" = "$key" ] && (cd "$folder" && sha256sum --quiet --check SHA256SUMS); then
	echo "kubernetes-lab: $version is there already"
	exit 0
fi

work=$folder/work
rm -rf "$work"
mkdir -p "$work/go/src/k8s.io"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
echo "kubernetes-lab: getting $package $version"
cd "$work"
try apt apt-get source --download-only "$package=$version"
try dpkg-source --no-check -x "$package"_*.dsc "$work/go/src/k8s.io/kubernetes"
rm -f "$work/$package"_*

unset GOFLAGS MAKEFLAGS MFLAGS MAKELEVEL
export GOPATH="$work/go" GOCACHE="$work/cache" GO111MODULE=off CGO_ENABLED=0
cd "$work/go/src/k8s.io/kubernetes"
number=$(echo "$version" | sed 's/.*really//; s/-.*//')
about=k8s.io/kubernetes/vendor/k8s.io/component-base/version
build() {
	echo "kubernetes-lab: building $*"
	try nice -n 10 go build "-p=${JOBS:-2}" -trimpath -ldflags "-s -w -X $about.gitVersion=v$number \
-X $about.gitMajor=${number%%.*} -X $about.gitMinor=$(echo "$number" | cut -d . -f 2)" -o "$work/bin/" "$@"
}

# The source's own copy of this library does not know how Go 1.18 and later walk through maps: objects of kinds that are defined in
# the cluster would end the server.
library=github.com/modern-go/reflect2
[ -d "/usr/share/gocode/src/$library" ] || give_up "there is no golang-github-modern-go-reflect2-dev: install it"
rm -rf "vendor/$library"
cp -r "/usr/share/gocode/src/$library" "vendor/$library"

mkdir "$work/bin"
# The description of the API is made of the source.
build ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
parts=$(grep -rl --include='*.go' --exclude='*_test.go' '^// +k8s:openapi-gen=' pkg cmd plugin vendor/k8s.io/*/ |
	xargs -n 1 dirname | grep -v -e code-generator -e sample-apiserver | LC_ALL=C sort -u | sed 's|^|k8s.io/kubernetes/|')
GOROOT=$(go env GOROOT)
export GOROOT
try "$work/bin/openapi-gen" --logtostderr -i "$(echo "$parts" | paste -sd ,)" -p k8s.io/kubernetes/pkg/generated/openapi \
	-O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$work/report"
for name in $programs; do
	build "./cmd/$name"
done

cd "$work/bin"
# shellcheck disable=SC2086  # a list of words
mv $programs "$folder/"
cd "$folder"
# shellcheck disable=SC2086  # a list of words
sha256sum $programs >SHA256SUMS
echo "$key" >key
# Those who test as another user start kubectl.
chmod 755 "$folder"
cat SHA256SUMS
