#!/bin/sh
# check_layers.sh FILE... - fails when a folder of src/ includes one above it.
#
# The order is that of docs/architecture.md.  Folders of one layer do not
# include each other, except where PEERS says so; the processes never include
# one another: what they share belongs below them.
exec awk '
BEGIN {
	rank("cli proc", 8)
	rank("dispatch serve mcp tools plan", 7)
	rank("registry audit egress target fleet state", 6)
	rank("upstream boundary vault store workspace volume cell image witness link", 5)
	rank("policy sign http inspect tls wire ssh confine steer vm profile project", 4)
	rank("ipc loop", 3)
	rank("canon trust credential", 2)
	rank("base", 1)
	peers["boundary", "cell"] = 1
	peers["upstream", "cell"] = 1
	peers["volume", "workspace"] = 1
	peers["tools", "mcp"] = 1
	peers["ipc", "loop"] = 1
	peers["state", "audit"] = 1
	peers["policy", "http"] = 1
	peers["profile", "policy"] = 1
	peers["project", "http"] = 1
	peers["sign", "http"] = 1
	peers["ssh", "http"] = 1
	peers["ssh", "sign"] = 1
	peers["inspect", "http"] = 1
	peers["inspect", "policy"] = 1
	bad = 0
}

function rank(names, n,    list, i, count) {
	count = split(names, list, " ")
	for (i = 1; i <= count; i++)
		layer[list[i]] = n
}

function complain(why) {
	printf "%s:%d: %s\n", FILENAME, FNR, why > "/dev/stderr"
	bad = 1
}

# A process is a folder of its own: proc/init is not proc/supervisor.
function folder(path,    part) {
	split(path, part, "/")
	return part[1] == "proc" ? part[1] "/" part[2] : part[1]
}

function top(name) {
	sub(/\/.*/, "", name)
	return name
}

FNR == 1 {
	from = FILENAME
	sub(/^(.*\/)?src\//, "", from)
	from = folder(from)
	if (!(top(from) in layer))
		complain("folder src/" from " has no layer: give it one in tools/check_layers.sh")
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
	split($0, part, "\"")
	if (part[2] ~ /(^|\/)\.\.?\//) {
		complain("include \"" part[2] "\" by its path under src/")
		next
	}
	if (part[2] !~ /\//)            # beside the file, or generated
		next
	to = folder(part[2])
	if (to == from)
		next
	if (!(top(to) in layer))
		complain("\"" part[2] "\" is in no layer that tools/check_layers.sh knows")
	else if (layer[top(to)] > layer[top(from)])
		complain("src/" from " includes \"" part[2] "\", which is in a layer above it")
	else if (layer[top(to)] == layer[top(from)] && !((top(from), top(to)) in peers))
		complain("src/" from " includes its peer \"" part[2] "\"")
}

END { exit bad }
' "$@"
