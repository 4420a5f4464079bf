#!/bin/sh
# embed_files.sh NAME FILE... - prints the C that has these files' bytes in it, and a table of them: the
# NAME_files, each a struct NAME_file.
set -eu

name=$1
shift
n=0
for file; do
	printf '__asm__(".section .rodata.%s, \\"a\\"\\n"\n' "$name"
	printf '        ".globl %s_%d, %s_%d_end\\n"\n' "$name" "$n" "$name" "$n"
	printf '        "%s_%d: .incbin \\"%s\\"\\n"\n' "$name" "$n" "$file"
	printf '        "%s_%d_end: .byte 0\\n"\n' "$name" "$n"
	printf '        ".previous\\n");\n'
	printf 'extern const char %s_%d[], %s_%d_end[];\n' "$name" "$n" "$name" "$n"
	n=$((n + 1))
done
printf 'const struct %s_file %s_files[] = {\n' "$name" "$name"
n=0
for file; do
	printf '\t{ "%s", %s_%d, %s_%d_end },\n' "${file##*/}" "$name" "$n" "$name" "$n"
	n=$((n + 1))
done
printf '\t{0}\n};\n'
