// Package sharing tests sessions, handles and processes that share a cache.
package sharing
