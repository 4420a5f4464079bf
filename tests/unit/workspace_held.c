/* workspace_held.c - tests of what would run by itself. */
#include "workspace/workspace_held.h"

#include "test.h"
#include "workspace/workspace.h"

static const struct {
	const char *path;
	bool git_dir, want;
} held_cases[] = {
	{ ".git/hooks", false, true },
	{ ".git/hooks/pre-commit", false, true },
	{ ".git/hooks/deep/er", false, true },
	{ ".git/config", false, true },
	{ ".git/config.worktree", false, true },
	{ ".git/commondir", false, true },
	{ ".git/info/attributes", false, true },
	{ ".git/rebase-merge/git-rebase-todo", false, true },
	{ ".git/sequencer/todo", false, true },
	{ "a/b/.git/config", false, true },
	{ ".git/modules/lib/config", false, true },
	{ ".git/modules/a/b/hooks/post-checkout", false, true },
	{ ".git/worktrees/x/config.worktree", false, true },
	{ ".git/worktrees/x/commondir", false, true },
	{ ".GIT/Hooks/pre-commit", false, true },
	{ "GIT~1/hooks/pre-commit", false, true },
	{ ".git/remotes/origin", false, true },
	{ ".git/branches/x", false, true },
	{ "a/.git/objects/info/alternates", false, true },
	{ ".git/objects/info/http-alternates", false, true },
	{ ".git/modules/lib/objects/info/alternates", false, true },
	{ ".git/branches", false, false },
	{ ".git/refs/remotes/origin/main", false, false },
	{ ".git/modules/lib/refs/remotes/origin/main", false, false },
	{ ".git/objects/info/packs", false, false },
	{ ".git", false, false },
	{ ".git/HEAD", false, false },
	{ ".git/index", false, false },
	{ ".git/info", false, false },
	{ ".git/info/exclude", false, false },
	{ ".git/modules", false, false },
	{ ".git/modules/lib/HEAD", false, false },
	{ ".git/worktrees/x/HEAD", false, false },
	{ ".git/worktrees/config", false, false },
	{ ".git/refs/heads/config", false, false },
	{ ".gitmodules", false, false },
	{ ".gitattributes", false, false },
	{ ".github/workflows/ci.yml", false, false },
	{ "git/hooks/x", false, false },
	{ "xgit/hooks", false, false },
	{ "hooks/pre-commit", false, false },
	{ "config", false, false },

	{ "hooks/pre-commit", true, true },
	{ "config", true, true },
	{ "info/attributes", true, true },
	{ "modules/x/config", true, true },
	{ "worktrees/x/config.worktree", true, true },
	{ "HEAD", true, false },
	{ "refs/heads/main", true, false },
	{ "objects/aa/bb", true, false },

	{ ".envrc", false, true },
	{ "sub/.envrc", false, true },
	{ ".envrc.local", false, true },
	{ ".env", false, false },
	{ ".envrcx", false, false },
	{ ".vscode/tasks.json", false, true },
	{ ".vscode", false, true },
	{ "a/.VSCode/tasks.json", false, true },
	{ "x.code-workspace", false, true },
	{ "code-workspace", false, false },
	{ ".idea/workspace.xml", false, true },
	{ ".husky/pre-commit", false, true },
	{ ".pre-commit-config.yaml", false, true },
	{ ".devcontainer/devcontainer.json", false, true },
	{ ".claude/settings.json", false, true },
	{ ".mcp.json", false, true },
	{ "a/cloister.yaml", false, true },
	{ ".cargo/config", false, true },
	{ ".cargo/config.toml", false, true },
	{ ".cargo", false, false },
	{ ".cargo/registry/x", false, false },
	{ ".yarn/releases/yarn.cjs", false, true },
	{ ".yarn/cache/x.zip", false, false },
	{ ".npmrc", false, true },
	{ "lefthook.yml", false, true },
	{ "mise.local.toml", false, true },
	{ "mise.toml.bak", false, false },
	{ ".tool-versions", false, false },
	{ ".gdbinit", false, true },
	{ ".dir-locals.el", false, true },
	{ ".bashrc", false, true },
	{ ".ssh/authorized_keys", false, true },
	{ ".config/autostart/x.desktop", false, true },
	{ ".rvmrc", false, true },
	{ "flake.nix", false, true },
	{ "sub/shell.nix", false, true },
	{ "default.nix", false, false },
	{ ".run/all.run.xml", false, true },
	{ ".run/notes", false, false },
	{ ".ctags.d/x.ctags", false, true },
	{ ".venv/bin/python", false, true },
	{ ".venv/lib/x.py", false, false },
	{ ".trae/rules", false, true },
	{ ".factory/mcp.json", false, true },
	{ "remotes/x", true, true },
	{ "Makefile", false, false },
	{ "package.json", false, false },
	{ "src/config", false, false },
	{ "", false, false },
};

TEST(workspace_held_names)
{
	for (size_t i = 0; i < ARRAY_LEN(held_cases); i++)
		if (workspace_would_run(held_cases[i].path, held_cases[i].git_dir) !=
		    held_cases[i].want)
			test_fail(__FILE__, __LINE__, "'%s' should %sbe held", held_cases[i].path,
			          held_cases[i].want ? "" : "not ");
}

static const struct {
	const char *path;
	enum held want;
	bool in_git;
} around_cases[] = {
	{ ".git", HELD_AROUND, false },
	{ "a/.git", HELD_AROUND, false },
	{ ".git/info", HELD_AROUND, true },
	{ ".git/modules", HELD_AROUND, true },
	{ ".git/modules/x", HELD_NO, true },
	{ ".git/worktrees", HELD_AROUND, true },
	{ ".git/worktrees/x", HELD_AROUND, true },
	{ ".cargo", HELD_AROUND, false },
	{ "a/.yarn", HELD_AROUND, false },
	{ ".local/share", HELD_AROUND, false },
	{ ".jj/repo", HELD_AROUND, false },
	{ "src", HELD_NO, false },
};

TEST(workspace_held_folders_around)
{
	bool in_git;

	for (size_t i = 0; i < ARRAY_LEN(around_cases); i++) {
		CHECK(held_path(around_cases[i].path, NULL, &in_git) == around_cases[i].want);
		CHECK(in_git == around_cases[i].in_git);
	}
}

/* A repository in a repository: neither hides the other. */
TEST(workspace_held_nested_git)
{
	const struct held_git outer = { .base = 0 };
	const struct held_git inner = { .base = strlen("hooks/"), .outer = &outer };
	bool in_git;

	CHECK(held_path("hooks/pre-commit", &inner, &in_git) == HELD_YES && in_git);
	CHECK(held_path("hooks/config", &inner, &in_git) == HELD_YES);
	CHECK(held_path("hooks/config", NULL, &in_git) == HELD_NO && !in_git);
}
