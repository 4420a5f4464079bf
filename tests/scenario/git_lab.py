"""Git repositories as workspaces, for the tests that look at what an agent did to one."""
WHO = "git config user.name A; git config user.email a@example.com;"
AGENT = ("export GIT_AUTHOR_NAME=agent GIT_AUTHOR_EMAIL=agent@example.com"
         " GIT_COMMITTER_NAME=agent GIT_COMMITTER_EMAIL=agent@example.com;")


def make_repo(operator, files):
    path = operator.folder("repo", files)
    operator.host(f"git init -q -b main .; {WHO} git add .; git commit -q -m first", cwd=path)
    return path


def git(operator, folder, words):
    return operator.host(f"git {words}", cwd=folder)
