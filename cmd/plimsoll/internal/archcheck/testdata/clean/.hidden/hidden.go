package not read
