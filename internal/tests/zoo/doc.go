// Package zoo has models of ordinary users, with the outputs of the stock runtimes. Its test runs each of them without
// a cache, at a first start and at a next one, and writes docs/models.md. The models are in testdata; its README.md
// lists them.
package zoo
