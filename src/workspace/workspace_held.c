/* workspace_held.c - lists the names that the host would later run by itself.
 *
 * A file is held if some program runs, loads or obeys it unasked, when a person only enters, lists,
 * opens or commits in a folder: above all where people do not look.  These are not held:
 *   - files that run when a person builds or tests (Makefile, package.json, build.rs, conftest.py):
 *     they are the agent's very work, in plain sight;
 *   - files that only take effect elsewhere (.github/workflows);
 *   - files that only name something which configuration must allow first (.gitattributes);
 *   - data (.env, .editorconfig, .tool-versions, .gitignore).  .gitmodules is data too: git takes no
 *     commands from it, and clones only when asked. */
#include "workspace/workspace_held.h"

#include <string.h>

#include "base/own.h"
#include "workspace/workspace.h"

/* Anywhere in the tree.  Each entry means the file or folder and everything beneath it.  '*' is any
 * run of characters within a name.  Letter case is ignored, because some file systems ignore it. */
static const char *const held_anywhere[] = {
	/* On entering a folder: direnv, autoenv, mise, rvm; and files that direnv evaluates again
	 * after a change, once its own file was allowed. */
	".envrc", ".envrc.*", ".direnv", ".autoenv", ".autoenv.zsh", ".rvmrc",
	"flake.nix", "shell.nix",
	"mise.toml", ".mise.toml", "mise.*.toml", ".mise.*.toml", ".mise", ".rtx.toml",

	/* On a commit, through existing hooks. */
	".husky", ".githooks", ".git-hooks", "githooks", "git-hooks", ".hooks",
	".pre-commit-config.yaml", ".overcommit.yml",
	"lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook-local.*",
	".lintstagedrc", ".lintstagedrc.*",

	/* Other version control: hooks, aliases, and the location of the real store. */
	".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath",
	".jj/repo/config.toml", ".jj/config.toml", ".svn/hooks",

	/* On opening a folder in an editor: tasks, interpreters, language servers. */
	".vscode", "*.code-workspace", ".vs", ".idea", ".fleet", ".zed", ".helix", ".nova",
	"*.sublime-project", ".project", ".externalToolBuilders", ".settings",
	".vim", ".vimrc", ".gvimrc", ".exrc", ".lvimrc", "_vimrc", "_exrc",
	".nvim", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el",
	".emacs", ".emacs.d", ".luarc.json", ".luarc.jsonc", ".latexmkrc", "latexmkrc",
	".devcontainer", ".devcontainer.json", ".run/*.xml", ".ctags.d", ".venv/bin",

	/* On starting another agent here: hooks, tools, permissions. */
	".claude", ".claude.json", ".mcp.json", ".cursor", ".windsurf", ".codex",
	".gemini", ".continue", ".roo", ".kiro", ".amazonq", ".junie", ".opencode",
	"opencode.json", "opencode.jsonc", ".crush.json", "crush.json", ".goose", ".qwen",
	".augment", ".aider.conf.yml", ".trae", ".factory",

	/* On starting the next cell here: its policy. */
	"cloister.yaml",

	/* On starting a debugger or an interpreter here. */
	".sl/config", "rust-analyzer.toml", ".rust-analyzer.toml", "rust-toolchain.toml",
	"rust-toolchain", ".iex.exs", ".octaverc", "jupyter_*_config.py", ".pylintrc",
	".arcconfig", ".ycm_extra_conf.py", ".vimspector.json", ".lazy.lua",
	".gdbinit", ".lldbinit", ".pdbrc", ".pdbrc.py", ".perldb", ".irbrc", ".pryrc",
	".rdbgrc", ".Rprofile", ".Renviron", ".RData", ".ghci", ".ocamlinit", ".utop",
	".psqlrc", ".sqliterc", ".my.cnf", ".lessfilter",

	/* On any use of a package manager or build tool: its program, shell, registry, plug-ins. */
	".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins",
	".pnpmfile.cjs", ".pnpmfile.mjs", ".cargo/config", ".cargo/config.toml",
	".cargo/credentials", ".cargo/credentials.toml", ".bazelrc", ".bazeliskrc", ".mvn",
	".jvmopts", ".sbtopts", ".bundle/config", ".gemrc", ".rspec", ".pip", ".pypirc",

	/* If the workspace is a home folder, or becomes one. */
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases",
	".bash_completion", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
	".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc",
	".xonshrc", ".xinitrc", ".xsession", ".xsessionrc", ".xprofile", ".pam_environment",
	".config", ".local/bin", ".local/share/applications", ".local/share/systemd",
	".local/share/dbus-1", ".local/share/nautilus", ".local/share/kio", ".ssh", ".gnupg",
	".gitconfig", ".hgrc", ".tmux.conf", ".tmux", ".screenrc", ".curlrc", ".wgetrc",
	".aws", ".kube", ".docker", ".netrc", ".forward", ".procmailrc", ".mailcap",
	".muttrc", ".wezterm.lua", ".xbindkeysrc", ".crontab", ".systemd",
};

/* Beneath a git directory. */
static const char *const held_in_git[] = {
	"hooks",
	"config", "config.worktree",
	"commondir",                    /* the place of config and hooks */
	"info/attributes",
	"objects/info/alternates", "objects/info/http-alternates", /* other stores of trusted objects */
	/* Commands of an operation in progress, which --continue runs. */
	"rebase-merge", "rebase-apply", "sequencer", "BISECT_RUN",
};

/* The real location of a remote.  Only directly beneath a git directory: in a submodule's, whose
 * name may have slashes, these look like branches. */
static const char *const held_right_in_git[] = { "remotes/*", "branches/*" };

/* The second is the short name of the first on file systems with 8.3 names. */
static const char *const git_names[] = { ".git", "git~1" };

static char
fold_case(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t
name_len(const char *s)
{
	return strcspn(s, "/");
}

static const char *
next_name(const char *s)
{
	s += name_len(s);
	return *s == '/' ? s + 1 : s;
}

static bool
name_matches(const char *pattern, const char *name)
{
	size_t p = 0, n = 0, plen = name_len(pattern), nlen = name_len(name);
	size_t star = plen, resume = 0;

	while (n < nlen) {
		if (p < plen && pattern[p] == '*') {
			star = p++;
			resume = n;
		} else if (p < plen && fold_case(pattern[p]) == fold_case(name[n])) {
			p++;
			n++;
		} else if (star < plen) {
			p = star + 1;
			n = ++resume;
		} else {
			return false;
		}
	}
	while (p < plen && pattern[p] == '*')
		p++;
	return p == plen;
}

enum held
held_match(const char *pattern, const char *path)
{
	while (*pattern != '\0' && *path != '\0') {
		if (!name_matches(pattern, path))
			return HELD_NO;
		pattern = next_name(pattern);
		path = next_name(path);
	}
	return *pattern == '\0' ? HELD_YES : HELD_AROUND;
}

enum held
held_match_file(const char *pattern, const char *path)
{
	enum held m = held_match(pattern, path);

	for (; *pattern != '\0' && *path != '\0'; path = next_name(path))
		pattern = next_name(pattern);
	return m == HELD_YES ? (*path == '\0' ? HELD_AROUND : HELD_NO) : m;
}

static enum held
match_table(const char *const *table, size_t n, const char *path)
{
	enum held best = HELD_NO, m;

	for (size_t i = 0; i < n && best != HELD_YES; i++) {
		m = held_match(table[i], path);
		if (m > best)
			best = m;
	}
	return best;
}

static enum held
max_held(enum held a, enum held b)
{
	return a > b ? a : b;
}

/* REST is the names beneath a git directory. */
static enum held
match_git(const char *rest)
{
	enum held best = match_table(held_in_git, ARRAY_LEN(held_in_git), rest);
	const char *sub = next_name(rest);

	best = max_held(best, match_table(held_right_in_git, ARRAY_LEN(held_right_in_git), rest));
	/* Git directories of submodules, whose names may have slashes. */
	if (name_matches("modules", rest)) {
		best = max_held(best, *sub == '\0' ? HELD_AROUND : HELD_NO);
		for (; *sub != '\0' && best != HELD_YES; sub = next_name(sub))
			if (match_table(held_in_git, ARRAY_LEN(held_in_git), sub) == HELD_YES)
				best = HELD_YES;
	}
	if (name_matches("worktrees", rest)) {
		sub = next_name(sub);
		best = max_held(best, *sub == '\0' ? HELD_AROUND : match_table(held_in_git,
		                ARRAY_LEN(held_in_git), sub));
	}
	return best;
}

static bool
is_git_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(git_names); i++)
		if (name_matches(git_names[i], name))
			return true;
	return false;
}

enum held
held_path(const char *path, const struct held_git *git, bool *ret_in_git)
{
	enum held best = HELD_NO;
	const char *next;

	*ret_in_git = git != NULL;
	for (; git != NULL; git = git->outer)
		best = max_held(best, match_git(path + git->base));
	for (const char *p = path; *p != '\0'; p = next) {
		next = next_name(p);
		best = max_held(best, match_table(held_anywhere, ARRAY_LEN(held_anywhere), p));
		if (!is_git_name(p))
			continue;
		/* As a file or link, it points to the git directory. */
		if (*next == '\0') {
			best = max_held(best, HELD_AROUND);
		} else {
			*ret_in_git = true;
			best = max_held(best, match_git(next));
		}
	}
	return best;
}

bool
workspace_would_run(const char *path, bool git_dir)
{
	const struct held_git top = { .base = 0 };
	bool in_git;

	return held_path(path, git_dir ? &top : NULL, &in_git) == HELD_YES;
}
