package trust

// FollowLinks leaves links to who opens the path, which refuses them: who may change one is not looked at on Windows.
func FollowLinks(path string) (string, error) { return path, nil }
