#!/bin/sh
# Stands in for bench/hudsucker in the tests of the rig, and is started as that is: a floor, by the program beside it.
exec "${0%/*}/oncegate-bench" serve-floor "$1" "$2"
