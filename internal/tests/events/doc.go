// Package events tests the events, reasons and errors that a host learns.
package events
