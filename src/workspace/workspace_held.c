/* workspace_held.c - the names that a host would run later by itself.
 *
 * What is held back is what some program runs, loads or obeys without being asked
 * to, when one only enters, lists, opens or commits in a folder: above all where
 * people do not look.  What runs when one builds or tests (Makefile, package.json,
 * build.rs, conftest.py) is not: it is the agent's very work, and in plain sight.
 * Nor is what only takes effect elsewhere (.github/workflows), what only names
 * something that configuration must allow first (.gitattributes), or data
 * (.env, .editorconfig, .tool-versions, .gitignore).  .gitmodules is data too: git
 * takes no commands from it, and clones only when asked. */
#include "workspace/workspace_held.h"

#include <string.h>

#include "base/own.h"
#include "workspace/workspace.h"

/* Anywhere in the tree.  Each means the thing itself and all beneath it; '*' is
 * any run of characters within a name; letter case does not matter, because it
 * does not to some file systems. */
static const char *const held_anywhere[] = {
	/* On entering a folder: direnv, autoenv, mise, rvm; what direnv evaluates again when it
	 * changed, once its own file was allowed. */
	".envrc", ".envrc.*", ".direnv", ".autoenv", ".autoenv.zsh", ".rvmrc",
	"flake.nix", "shell.nix",
	"mise.toml", ".mise.toml", "mise.*.toml", ".mise.*.toml", ".mise", ".rtx.toml",

	/* On a commit, through hooks that are already there. */
	".husky", ".githooks", ".git-hooks", "githooks", "git-hooks", ".hooks",
	".pre-commit-config.yaml", ".overcommit.yml",
	"lefthook.*", ".lefthook.*", "lefthook-local.*", ".lefthook-local.*",
	".lintstagedrc", ".lintstagedrc.*",

	/* Other version control: hooks, aliases, and where the real store is. */
	".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath",
	".jj/repo/config.toml", ".jj/config.toml", ".svn/hooks",

	/* On opening a folder in an editor: tasks, interpreters, language servers. */
	".vscode", "*.code-workspace", ".vs", ".idea", ".fleet", ".zed", ".helix", ".nova",
	"*.sublime-project", ".project", ".externalToolBuilders", ".settings",
	".vim", ".vimrc", ".gvimrc", ".exrc", ".lvimrc", "_vimrc", "_exrc",
	".nvim", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".dir-locals-2.el",
	".emacs", ".emacs.d", ".luarc.json", ".luarc.jsonc", ".latexmkrc", "latexmkrc",
	".devcontainer", ".devcontainer.json", ".run/*.xml", ".ctags.d", ".venv/bin",

	/* On starting another agent here: hooks, tools to start, permissions. */
	".claude", ".claude.json", ".mcp.json", ".cursor", ".windsurf", ".codex",
	".gemini", ".continue", ".roo", ".kiro", ".amazonq", ".junie", ".opencode",
	"opencode.json", "opencode.jsonc", ".crush.json", "crush.json", ".goose", ".qwen",
	".augment", ".aider.conf.yml", ".trae", ".factory",

	/* On starting the next cell here: what it may reach. */
	"cloister.yaml",

	/* On starting a debugger or an interpreter here. */
	".sl/config", "rust-analyzer.toml", ".rust-analyzer.toml", "rust-toolchain.toml",
	"rust-toolchain", ".iex.exs", ".octaverc", "jupyter_*_config.py", ".pylintrc",
	".arcconfig", ".ycm_extra_conf.py", ".vimspector.json", ".lazy.lua",
	".gdbinit", ".lldbinit", ".pdbrc", ".pdbrc.py", ".perldb", ".irbrc", ".pryrc",
	".rdbgrc", ".Rprofile", ".Renviron", ".RData", ".ghci", ".ocamlinit", ".utop",
	".psqlrc", ".sqliterc", ".my.cnf", ".lessfilter",

	/* On any use of a package manager or build tool: which program, which shell,
	 * which registry, which plug-ins. */
	".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins",
	".pnpmfile.cjs", ".pnpmfile.mjs", ".cargo/config", ".cargo/config.toml",
	".cargo/credentials", ".cargo/credentials.toml", ".bazelrc", ".bazeliskrc", ".mvn",
	".jvmopts", ".sbtopts", ".bundle/config", ".gemrc", ".rspec", ".pip", ".pypirc",

	/* Where the workspace is a home, or becomes one. */
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
	"commondir",                    /* where config and hooks are looked for instead */
	"info/attributes",
	"objects/info/alternates", "objects/info/http-alternates", /* whose objects are believed */
	/* Commands of an operation in progress, run by --continue. */
	"rebase-merge", "rebase-apply", "sequencer", "BISECT_RUN",
};

/* Only right beneath one: in a submodule's, whose name may have slashes in it, they look like
 * branches.  Where a remote really is. */
static const char *const held_right_in_git[] = { "remotes/*", "branches/*" };

/* The second is what file systems with 8.3 names know the first by. */
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

/* REST: names beneath a git directory. */
static enum held
match_git(const char *rest)
{
	enum held best = match_table(held_in_git, ARRAY_LEN(held_in_git), rest);
	const char *sub = next_name(rest);

	best = max_held(best, match_table(held_right_in_git, ARRAY_LEN(held_right_in_git), rest));
	/* Submodules' git directories, whose names may have slashes in them. */
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
		/* As a file or link it says where the git directory is. */
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
