#!/bin/sh
# Toad in the directory given, or in this one, with Pattern as its agent.
exec toad acp "pattern-acp acp" "${1:-.}" -t Pattern
