#!/bin/sh
# web_files.sh FILE... - prints the C that has these files' bytes in it, and a table of them.
set -eu

n=0
for file; do
	printf '__asm__(".section .rodata.web, \\"a\\"\\n"\n'
	printf '        ".globl web_%d, web_%d_end\\n"\n' "$n" "$n"
	printf '        "web_%d: .incbin \\"%s\\"\\n"\n' "$n" "$file"
	printf '        "web_%d_end: .byte 0\\n"\n' "$n"
	printf '        ".previous\\n");\n'
	printf 'extern const char web_%d[], web_%d_end[];\n' "$n" "$n"
	n=$((n + 1))
done
printf 'const struct web_file web_files[] = {\n'
n=0
for file; do
	printf '\t{ "%s", web_%d, web_%d_end },\n' "${file##*/}" "$n" "$n"
	n=$((n + 1))
done
printf '\t{0}\n};\n'
