package main

import . "math/rand"
