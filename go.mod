module github.com/plimsoll/plimsoll

go 1.26
