// Package zoo has models of ordinary users, with what the stock runtimes answer. Its test runs each of them without a
// cache, at a first start and at a next one, and keeps docs/models.md. The models are in testdata; its README.md says
// what they are.
package zoo
