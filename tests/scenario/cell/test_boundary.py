"""The boundary of a cell: what its walls are made of."""


def test_default_boundary_has_a_name(operator):
    assert operator.run("--boundary", "namespace", "--", "echo", "inside").ok() == "inside\n"


def test_unknown_boundary_is_refused_with_the_list(operator):
    operator.run("--boundary", "cardboard", "--", "true").sentence("no boundary 'cardboard'", "use namespace")
    operator.run("--boundary", "", "--", "true").sentence("no boundary ''", "use namespace")
