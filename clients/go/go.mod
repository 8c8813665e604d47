module tickwheel.example/client

go 1.19
