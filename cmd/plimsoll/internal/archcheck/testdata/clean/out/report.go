package written by a target
