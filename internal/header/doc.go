// Package header stops the compiler, with what to do, where XNNPACK's header is not found. Packages that include the
// header import it, so that this is said once and nothing after it.
package header
